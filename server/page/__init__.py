"""The page of a served run: a small HTTP server that shows what run.db and live.json say. Not the run's server.

It runs in a process of its own and reads files alone: what its visitors do, nobody in the run notices.
"""
