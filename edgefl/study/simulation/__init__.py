"""The rounds of a federation in one process, without a network: the definition of correct for the server."""
