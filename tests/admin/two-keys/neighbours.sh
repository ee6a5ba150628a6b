# An interface on a partition, a neighbour that answers, and what the tables have then.
run() { echo "# $*"; "$@" 2>&1; }
run dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
run ipadm create-if pFFFF.ibp0
run ipadm create-addr -T static -a 10.0.0.1/24 pFFFF.ibp0/v4
run ipadm create-addr -T addrconf pFFFF.ibp0/v6
until [ "$(dladm show-part -p -o state pFFFF.ibp0)" = up ]; do sleep 1; done
until [ "$(ipadm show-addr -p -o state pFFFF.ibp0/v4)" = ok ]; do sleep 1; done
until [ "$(ipadm show-addr -p -o state pFFFF.ibp0/v6)" = ok ]; do sleep 1; done
run ipadm show-if
run ipadm show-addr
ipadm show-addr -p -o addrobj,addr pFFFF.ibp0/v4
dladm show-link
ifconfig pFFFF.ibp0 inet
run ping 10.0.0.2
arp -an | grep 10.0.0.2
run ping -A inet6 fe80::202:c903:a:1c11
# bob may announce his address before he has answered, and then he is asked later.
netstat -pn -f inet6 | grep 'dynamic.*1c11' | sed 's/DELAY    /REACHABLE/'
run ipadm create-if pFFFF.ibp0
run ipadm create-if ibp0
run dladm delete-part pFFFF.ibp0
run ipadm delete-addr pFFFF.ibp0/v4
run ipadm delete-if pFFFF.ibp0
run ipadm delete-if pFFFF.ibp0
run dladm delete-part pFFFF.ibp0
run dladm show-part pFFFF.ibp0
