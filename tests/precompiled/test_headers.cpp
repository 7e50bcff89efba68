// The source that a target must have.
int main() { return 0; }
