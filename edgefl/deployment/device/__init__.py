"""A device of a served run: one process that holds private samples and a model, and talks to the server.

protocol    what it answers to which message: sans-IO
model       the model it trains, and training
bounds      what a server may ask of it at most
alarm       the clock that ends what takes longer
state       its directory: what a crash may not lose
identity    what its server knows that directory by
sealed      records with their own digest
socket      the connection, made again when it breaks
attempts    when it is tried again, and when no longer
"""
