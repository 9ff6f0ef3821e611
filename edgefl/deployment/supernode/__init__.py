"""A device of a Flower federation, without flwr or torch: the Fleet API of a SuperLink, flwr 1.41 and 1.42, over HTTP.

protobuf         bytes of protocol buffers and back, by tables of fields
message_tables   the tables of fields for the messages of the Fleet API
message_objects  the content of a message as objects with ids and children, which is how it travels
libcrypto        signatures by the system's libcrypto
node_key         the key of a node: reading it, making it, and signing a call
fleet_api        the calls, one method for each, and the version of the server
message_store    the messages that a crash of the device may not lose
supernode        the turns of the device: register, pull, answer, push
"""
