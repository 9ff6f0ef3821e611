"""`python -m bench int8-activations`: evaluations with int8 activations, with int8 weights alone, and in float32."""
