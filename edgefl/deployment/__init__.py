"""A device in the world: real sockets, real files, the owner's conditions.

device      one device of a served run: its protocol, its model, its state on disk, its socket
agent       keeps a device in service, as long as its owner's conditions hold
supernode   a device as a SuperNode of a Flower federation, without flwr

The other side is edgefl.server. What a device computes is learning's and methods'.
"""
