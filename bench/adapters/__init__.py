"""Low-rank adapters: a step of GPT-2 beside torch with peft, steps within memory limits, and a served round."""
