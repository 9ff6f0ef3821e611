"""The messages between server and device, as values and as bytes. No sockets, no clock, no files."""
