"""Keeps a device in service: waits for servers, takes part in their runs one after another, while its owner's
conditions hold.

settings    what its owner has written down: servers, limits, conditions
machine     what Linux says of power, temperature, load and network
conditions  whether that is within the owner's limits
watch       looks at it every few seconds
samples     the device's data, read again when the file has changed
attendance  the device in one run, which it leaves when it should
service     the turns of the servers
activity    what it does now, for `edgefl agent --status`
"""
