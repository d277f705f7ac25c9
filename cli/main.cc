#include <cstdio>
int main() { return 70; }
