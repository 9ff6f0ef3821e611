"""A process that keeps a device in service: it joins runs one after another while its owner's conditions hold.

agent_settings      what the owner has written down: servers, limits, conditions
machine_status      what Linux tells about power, temperature, load and network
conditions          whether the state of the machine is within the owner's limits
machine_watch       looks at the machine every few seconds
sample_file         the device's data, which are read again when the file has changed
conditional_device  the device in one run, which it leaves when it should
service             the turns of the servers
activity_file       what the agent does at this time, for `edgefl agent --status`
"""
