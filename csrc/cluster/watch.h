// Knowing which processes of the program are still there: a thread that sends and expects signs of life.
//
// Each process has a connection to some others (to all, in small programs). It sends a byte pattern over each twice per
// second, and takes a neighbour for lost whose connection closes or from whom nothing came for some seconds. It tells
// all neighbours whom it takes for lost or has heard to have left, and they tell theirs. The thread needs no
// interpreter lock, so a program that computes for minutes without giving it away counts as alive.
#pragma once
#include <utility>
#include <vector>

#include "cluster/peers.h"

namespace fb::cluster {

// Begins to watch. Takes the connections, pairs of descriptor and rank, and writes to the eventfd `changed` whenever
// the state of a rank changes.
void start_watch(int rank, int size, const std::vector<std::pair<int, int>>& connections, double silence, int changed);

// Tells the others that this process leaves on purpose, and ends watching.
void end_watch();

}  // namespace fb::cluster
