"""edgefl inside other programs, a file each; each needs the extra of its name. Nothing else imports them."""
