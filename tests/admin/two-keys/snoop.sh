# What a listener on a link sees of a first conversation. The identifier of an echo is the sender's choice.
set -e
dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
ipadm create-if pFFFF.ibp0
ipadm create-addr -T static -a 10.0.0.1/24 pFFFF.ibp0/v4
until [ "$(dladm show-part -p -o state pFFFF.ibp0)" = up ]; do sleep 1; done
until [ "$(ipadm show-addr -p -o state pFFFF.ibp0/v4)" = ok ]; do sleep 1; done
# IP announces a new address five times in eight seconds.
sleep 10
file=$(mktemp)
words=$(mktemp)
snoop -q -c 4 -o $file -d pFFFF.ibp0 arp or icmp 2>$words &
until grep Using $words; do sleep 1; done
ping 10.0.0.2
wait
shown() { sed 's/ID: [0-9]*/ID: 1234/; s/^.\{14\}//'; }
snoop -i $file -r | shown
snoop -i $file -r -V icmp | tail -4 | sed -e '/^____/d' | shown | sed 's/LEN=84, ID=[0-9]*/LEN=84, ID=4660/; s/TTL=[0-9]*/TTL=255/'
snoop -i $file -r -v -c 1 | grep -v arrived
snoop -i $file -r -c 1
rm $file $words
snoop -d ibp0 -c 1 2>&1 || true
snoop -d ibp7 -c 1 2>&1 || true
snoop -d pFFFF.ibp0 -c 1 broadcast 2>&1 || true
