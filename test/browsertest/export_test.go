package browsertest

// Patience bounds the waits of this package's tests, too.
const Patience = patience
