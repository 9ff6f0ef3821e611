"""A device of a served run: one process that holds private samples and a model, and talks to the server.

protocol    what it answers to which message: sans-IO
model       the model it trains, and training
state       its directory: what a crash may not lose
socket      the connection, made again when it breaks
"""
