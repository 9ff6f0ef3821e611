"""Language models of characters, trained centrally and in a federation of the roles of Shakespeare's plays."""
