"""Plans bound to memory and run: the learner of a Graph, its arena, its programs and their scratch memory."""
