# Properties of a link that nobody uses, and of one that IP has open.
run() { echo "# $*"; "$@" 2>&1; }
dladm create-part -l ibp0 -P FFFF pFFFF.ibp0
run dladm set-linkprop -p linkmode=rc pFFFF.ibp0
run dladm set-linkprop -p linkmode=ud pFFFF.ibp0
run dladm set-linkprop -p linkmode=cm pFFFF.ibp0
run dladm show-linkprop -c -o property,value -p linkmode pFFFF.ibp0
run dladm set-linkprop -p linkmode=ud pFFFF.ibp0
run dladm set-linkprop -p linkmode=ud ibp0
run dladm show-linkprop -p linkmode,autopush,zone,maxbw,priority,protection pFFFF.ibp0
run dladm show-linkprop -c -o property,perm,value -p _ibd_broadcast_group,_ibd_num_ah pFFFF.ibp0
run dladm show-linkprop -c -o property,perm,value,default,possible -p mtu,state ibp0
run dladm set-linkprop -p _ibd_num_ah=512 pFFFF.ibp0
run dladm set-linkprop -p _ibd_num_ah=31 pFFFF.ibp0
run dladm set-linkprop -p _ibd_nothing=1 pFFFF.ibp0
run dladm set-linkprop -p nothing=1 pFFFF.ibp0
run dladm show-linkprop -P -c -o property,value pFFFF.ibp0
ipadm create-if pFFFF.ibp0
run dladm set-linkprop -p _ibd_num_ah=256 pFFFF.ibp0
run dladm set-linkprop -p linkmode=cm pFFFF.ibp0
ipadm delete-if pFFFF.ibp0
run dladm reset-linkprop -p _ibd_num_ah pFFFF.ibp0
run dladm show-linkprop -c -o property,value -p _ibd_num_ah pFFFF.ibp0
run dladm set-linkprop -p mtu=1500 pFFFF.ibp0
run dladm show-linkprop -c -o property,perm,value,default,possible -p mtu pFFFF.ibp0
run dladm set-linkprop -p mtu=1279 pFFFF.ibp0
run dladm reset-linkprop -p mtu pFFFF.ibp0
run dladm show-linkprop -c -o property,value -p mtu pFFFF.ibp0
