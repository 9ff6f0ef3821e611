"""The messages between server and device, as values and as bytes. The package uses no sockets, clocks or files."""
