"""edgefl inside other frameworks: an adapter a file, each with a page in docs/. Nothing else imports the frameworks."""
