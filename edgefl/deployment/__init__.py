"""A device in the world, with real sockets, real files and the conditions of its owner.

device      one device of a served run: its protocol, its model, its state on disk, its socket
agent       keeps a device in service, as long as its owner's conditions hold
supernode   a device as a SuperNode of a Flower federation, without flwr

The server is edgefl.server. The computations of a device are in edgefl.learning and edgefl.methods.
"""
