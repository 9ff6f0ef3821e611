"""The page of a served run: a small HTTP server that shows what run.db and live.json say.

It runs in a process of its own and only reads files, so the run's server does not notice what visitors do.
"""
