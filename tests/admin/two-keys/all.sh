# Echoes to all that a link has.
run() { echo "# $*"; "$@" 2>&1; }
dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
ipadm create-if pFFFF.ibp0
ipadm create-addr -T static -a 10.0.0.1/24 pFFFF.ibp0/v4
ipadm create-addr -T addrconf pFFFF.ibp0/v6
until [ "$(dladm show-part -p -o state pFFFF.ibp0)" = up ]; do sleep 1; done
until [ "$(ipadm show-addr -p -o state pFFFF.ibp0/v4)" = ok ]; do sleep 1; done
until [ "$(ipadm show-addr -p -o state pFFFF.ibp0/v6)" = ok ]; do sleep 1; done
for all in 10.0.0.255 255.255.255.255 224.0.0.1 ff02::1; do
	run ping -i pFFFF.ibp0 $all
	ping -n -i pFFFF.ibp0 -s $all 56 1 | sed -n 's/time=.*//; 2p; s/round-trip.*//; 5p'
done
run ping 10.0.1.2
run ping -s 10.0.0.2 70000 1
