"""Low-rank adapters (LoRA) of a model: added to its layers, trained alone, merged into the weights, kept in files.

low_rank.py adds adapters to a graph, adapter_merging.py takes them away again, and peft_files.py has the files that the
package peft of Hugging Face reads and writes. An adapter is made of ordinary nodes and parameters, so every method,
payload and learner takes a model with adapters as any model of which a part is trained. edgefl.models has the public
names.
"""
