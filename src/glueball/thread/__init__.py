"""The thread IR and the table of instructions: what one thread does, for code generation and simulator alike."""
