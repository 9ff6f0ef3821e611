"""Low-rank adapters: a step of GPT-2 beside torch with peft, its memory, a served round, and bytes of a base."""
