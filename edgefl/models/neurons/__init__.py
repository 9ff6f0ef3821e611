"""The assignment of weights to neurons, and the part of a model that belongs to a set of active neurons.

These are values without bytes.

model_spec  ModelSpec: the neuron groups of a graph, and the axes of parameters that they index
neuron_set  NeuronSet: the active neurons of every group
mask        Mask: the coordinates of parameters that exist
update      Update: values of some coordinates of some parameters
gather      an Update gathered from a model, and scattered into one
submodel    the smaller graph that active neurons form
"""
