"""What a learner will run, as values: a graph lowered to a list of kernel calls over one arena. Nothing runs here."""
