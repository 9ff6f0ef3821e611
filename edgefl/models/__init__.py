"""Models as values: what a network is made of, and which of its weights belong to which neurons.

graph     the architecture as typed operations; its JSON; model files; built-in architectures
neurons   neuron groups, sets of active neurons, masks, and the part of a model that a message carries

No arithmetic of training is here (learning), no torch (torch) and no bytes of messages (protocol).
"""
