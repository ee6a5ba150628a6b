# Ports, devices, attachment points, before anything is configured.
dladm show-ib
dladm show-ib -p -o hcaguid,pkeys ibp0
dladm show-phys -o link,media,state,duplex,device
dladm show-phys -p -o speed ibp0
dladm show-phys -m ibp0
cfgadm -al
kstat -p link:0:ibp0:link_state
