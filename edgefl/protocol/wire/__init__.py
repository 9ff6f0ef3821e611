"""What server and device say to each other, as values and as bytes. No sockets, no clock, no files."""
