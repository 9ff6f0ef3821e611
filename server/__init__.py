"""The server of a run; imported as edgefl.server."""
