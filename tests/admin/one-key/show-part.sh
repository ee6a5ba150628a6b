# Three partitions that are in use: one that works, one whose P_Key the port does not have, one whose port is down.
set -e
dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
dladm create-part -f -l ibp0 -P 0x8001 p8001.ibp0
dladm create-part -f -l ibp1 -P ffff pFFFF.ibp1
for link in pFFFF.ibp0 p8001.ibp0 pFFFF.ibp1; do
	ipadm create-if $link
done
until [ "$(dladm show-part -p -o state pFFFF.ibp0)" = up ]; do sleep 1; done
dladm show-part
dladm show-part -p -o link,pkey,over,state,flags pFFFF.ibp0
dladm show-part -P -p -o link,flags -l ibp0
