"""The proofs of identity in a run: device keys, TLS contexts, and the certificates that `edgefl keys` makes."""
