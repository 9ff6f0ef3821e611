// The kernel bodies of one tier, and the function that writes them over the table. Included inside a tier's namespace.
// (list the .inl.h bodies here)
