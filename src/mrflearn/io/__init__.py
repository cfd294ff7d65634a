"""Files and text in, plain records out.  One file a format, reader and writer; no torch here."""
