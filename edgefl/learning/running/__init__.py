"""The run of schedules in memory: the learner of a Graph, its arena, its programs and their scratch memory."""
