-- What a plan is. This file is put before every script that checks or charges a plan: those of this package, and those
-- of the agendas. It only defines locals. Each function costs a little in every run of a script, so functions that not
-- every script needs have files of their own (clock_set_back.lua, refund.lua, usage.lua), or are made when they are
-- needed (counters.lua).
--
-- A plan limits one key. Its state:
--   rolling        sorted set   see log.lua, which stands before this
--   fixed_window   hash         s<per> start of the window in µs, n<per> admissions in it
--   token_bucket   hash         s<per>/<max> a moment in µs, the same for all; n<per>/<max> what the bucket lacks at that moment,
--                               o<per>/<max> what was charged beyond an empty bucket since it last had a token
--   both hashes                 m, a: token and moment of the admission that was written last; g: the moment from which a
--                               gap counts; p: the moment from which it counts once that admission is refunded; x<per>,
--                               or x<per>/<max>: the latest moment of what was admitted before the limit was known (0:
--                               nothing was), since a refund of that takes nothing out. Windows of rules that are no
--                               longer in force stay, and are charged, until they have passed: a rule that comes back
--                               finds them
-- The user's cap and each named cap are always rolling sorted sets of their own.
--
-- Times are µs since the epoch on this server's clock. They are below 2^53, so a double holds them exactly. `digits`
-- writes them, since Lua's own conversion keeps only 14 digits.

-- Algorithms have the letter that is in the names of their keys. Rolling is the one that keeps a log; the functions of
-- the others are in algorithms/.
local ROLLING = 'l'
local KIND_LIMIT, KIND_GAP, KIND_CAP, KIND_DORMANT = 0, 1, 2, 4

-- No admission is written further ahead than this (10 s in µs). What is further ahead was written before the clock was
-- set back.
local FAR_AHEAD = 10000000

-- A slot is granted at most this much ahead (40 ms in µs), see Horizon in Go.
local HORIZON = 40000

-- counts_in reports whether an admission of the plan counts in one of its named caps, see CountsOn in Go.
local function counts_in(plan, cap)
  local channel = plan.channel
  if not cap.channels or not channel then return true end
  return string.find(cap.channels, ' ' .. channel .. ' ', 1, true) or
    string.find(cap.channels, ' ' .. string.match(channel, '^[^:]*') .. ' ', 1, true)
end

-- read_plan reads a plan from ARGV, beginning at index i: the algorithm's letter, the number of rules, then max, per in
-- µs and kind of each (0 limit, 1 gap, 2 cap, 3 a named cap, 4 a dormant limit, which is only counted, 5 a shadow limit; or more, see
-- read_more), then the number of closed intervals, over how many µs the users begin again after each, and beginning and
-- end of each in µs, then of the one that asks "priority/channel" ("": it sees all of every rule, and counts in every
-- cap), and for each period that rules count in "/period: boundary boundary …" in µs. It returns the plan and the index after it. The keys of named caps are left to the caller. A plan remembers what it read of its state, so a script that charges must have one plan
-- object for each state key, not two.
local read_plan
do
  -- read_more reads what only few rules have: "kind/kept/kept/kept/period/cap/channels": how many of max are kept for priority 1,
  -- for 2 and more urgent ones, for 3; of a rule of the calendar its period (0: none); of a named cap the name, and the channels that it counts, parted by spaces ("":
  -- all). rule.seen is how many each priority sees, rule.reserves whether these differ, rule.named the place of its cap among plan.named.
  local function read_more(plan, rule, text)
    local kind, first, second, third, period, cap, channels =
      string.match(text, '^(%d)/(%d+)/(%d+)/(%d+)/(%d)/([^/]*)/(.*)$')
    local most = rule.max
    rule.kind = tonumber(kind)
    if period ~= '0' then rule.period = tonumber(period) end
    rule.seen = { most, most - first, most - first - second, most - first - second - third }
    rule.reserves = rule.seen[4] < most
    if rule.kind ~= 3 then return end
    local last = plan.named[#plan.named]
    if not last or last.name ~= cap then
      last = { name = cap, channels = channels ~= '' and ' ' .. channels .. ' ', log = { max = 0, per = 0 } }
      plan.named[#plan.named + 1] = last
    end
    rule.named = #plan.named
  end

  function read_plan(i, state_key, cap_key)
    local plan = {
      algorithm = ARGV[i], state = state_key, cap = cap_key, rules = {}, dormant = {}, shadow = {}, closed = {}, named = {},
      state_log = { max = 0, per = 0 }, cap_log = { max = 0, per = 0 },
    }
    local count = tonumber(ARGV[i + 1])
    i = i + 2
    for _ = 1, count do
      local max, per, kind = tonumber(ARGV[i]), tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2])
      local rule = { max = max, per = per, kind = kind, arg = i }
      if not kind then
        read_more(plan, rule, ARGV[i + 2])
        kind = rule.kind
      end
      local among = kind == KIND_DORMANT and plan.dormant or kind == 5 and plan.shadow or plan.rules
      among[#among + 1] = rule
      local log = kind == KIND_CAP and plan.cap_log or rule.named and plan.named[rule.named].log or plan.state_log
      if max > log.max then log.max = max end
      if per > log.per then log.per = per end
      i = i + 3
    end
    plan.spread = tonumber(ARGV[i + 1])
    for n = 1, tonumber(ARGV[i]) do
      plan.closed[n] = { from = tonumber(ARGV[i + 2]), over = tonumber(ARGV[i + 3]) }
      i = i + 2
    end
    if ARGV[i + 2] ~= '' then
      local priority, channel, periods = string.match(ARGV[i + 2], '^(%d)/([^/]*)(.*)$')
      plan.priority, plan.channel, plan.periods = tonumber(priority), channel ~= '' and channel, {}
      for period, list in string.gmatch(periods, '/(%d):([%d ]+)') do
        local boundaries = {}
        for at in string.gmatch(list, '%d+') do boundaries[#boundaries + 1] = tonumber(at) end
        plan.periods[tonumber(period)] = boundaries
      end
    end
    return plan, i + 3
  end
end

-- copy_log returns a copy of a log of which nothing is known yet. A log that no rule counts in is never read.
local function copy_log(log)
  if log.max == 0 then return log end
  return { max = log.max, per = log.per }
end

-- copy_plan returns a plan with the same rules for other keys.
local function copy_plan(plan, state_key, cap_key)
  local named = plan.named
  if #named > 0 then
    named = {}
    for i, cap in ipairs(plan.named) do
      named[i] = { name = cap.name, key = cap.key, channels = cap.channels, log = copy_log(cap.log) }
    end
  end
  return {
    algorithm = plan.algorithm, state = state_key, cap = cap_key, rules = plan.rules, dormant = plan.dormant,
    shadow = plan.shadow,
    closed = plan.closed, spread = plan.spread, later = plan.later, priority = plan.priority,
    channel = plan.channel, periods = plan.periods, named = named,
    state_log = copy_log(plan.state_log), cap_log = copy_log(plan.cap_log),
  }
end

