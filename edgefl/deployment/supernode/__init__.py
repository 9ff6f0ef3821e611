"""A device of a Flower federation, without flwr or torch: the Fleet API of a SuperLink, flwr 1.41 and 1.42, over HTTP.

protobuf    bytes of protocol buffers and back, by tables of fields
shapes      those tables for the messages of the Fleet API
objects     what a message carries, as objects with an id and children, which is how it travels
libcrypto   signatures by the system's libcrypto
node_key    a node's key: read, made, and what it signs of a call
fleet       the calls: one method each, and the server's version
mailbox     what a crash of the device may not lose of its messages
node        the device's turns: register, pull, answer, push
"""
