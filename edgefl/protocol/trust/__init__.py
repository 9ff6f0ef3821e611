"""Who may take part: device keys, TLS contexts, and the certificates that `edgefl keys` makes."""
