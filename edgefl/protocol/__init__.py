"""What server and device exchange, as values and as bytes.

codec   updates, neuron sets and masks as payloads, and back
wire    messages, frames and the order in which they may come
trust   keys, certificates and TLS contexts

No socket is opened here (deployment, server), and nothing here knows a method.
"""
