"""The rounds of a federation in one process, without a network, which define the correct results of the server."""
