// What is known of the other processes of the program, for those who wait for them.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

namespace fb::cluster {

enum class Peer : int { Here, Left, Closed, Silent, Reported };

struct Peers {
    explicit Peers(int size) : states(static_cast<size_t>(size)) {}
    std::vector<std::atomic<Peer>> states;  // by rank
    std::atomic<int> lost{-1};              // the first rank that was lost; ends all communication
};

// Of the program that this process is part of; null when it is alone.
std::shared_ptr<Peers> peers();
void set_peers(std::shared_ptr<Peers> value);

}  // namespace fb::cluster
