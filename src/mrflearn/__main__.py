"""`python -m mrflearn` is the command `mrflearn`."""

from mrflearn.cli.main import main

main()
