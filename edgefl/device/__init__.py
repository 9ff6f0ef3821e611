"""A device of a served run: one process that holds private samples and a model, and talks to the server.

protocol    what it answers to which message: sans-IO
model       the model it trains, and training
state       its directory: what a crash may not lose
identity    what its server knows that directory by
sealed      records with their own digest
socket      the connection, made again when it breaks
"""
