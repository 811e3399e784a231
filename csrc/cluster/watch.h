// Failure detection: a thread that sends and expects heartbeats.
//
// Each process has a connection to some others (to all, in small programs). It sends a heartbeat over each twice per
// second, and considers a neighbour lost when its connection closes or nothing arrived for some seconds. It tells all
// neighbours which ranks it considers lost or knows to have left, and they pass that on. The thread needs no
// interpreter lock, so a program that computes for minutes without releasing it counts as alive.
#pragma once
#include <utility>
#include <vector>

#include "cluster/peers.h"

namespace fb::cluster {

// Starts watching. Takes ownership of the connections, pairs of descriptor and rank, and writes to the eventfd
// `changed` whenever the state of a rank changes.
void start_watch(int rank, int size, const std::vector<std::pair<int, int>>& connections, double silence, int changed);

// Tells the others that this process leaves on purpose, and stops watching.
void end_watch();

}  // namespace fb::cluster
