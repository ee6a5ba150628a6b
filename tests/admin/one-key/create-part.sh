# Partitions that can be made, and those that cannot: on a port that is up, and on one that is down.
run() { echo "# $*"; "$@" 2>&1; }
run dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
run dladm create-part -l ibp0 -P 0x8001 p8001.ibp0
run dladm create-part -l ibp1 -P ffff pFFFF.ibp1
run dladm create-part -f -l ibp1 -P ffff pFFFF.ibp1
run dladm create-part -l ibp0 -P 7fff p7FFF.ibp0
run dladm create-part -l net0 -P ffff pFFFF.net0
run dladm create-part -l ibp0 -P ffff pFFFF.ibp0
run dladm create-part -l ibp0 -P 1ffff x0
