-- The functions that work on agendas, put with notification.lua before every script of this package that changes one. An
-- agenda is everything that waits for one user: a backlog per category, the set of what is due later, and one wake-up.
--
-- KEYS[1] of every script is the partition's prefix, such as "pacer:{push-3}:". All other keys are built from it, so
-- that they share its hash tag and with it a slot. Per partition:
--   c          hash   counts: the gauges waiting, deferred (of these capped, which wait for the user's cap, quiet, which
--                     wait for the end of a closed interval, and company, which wait for others to go with them),
--                     scheduled, retrying (of these held, which wait for their provider, not after a failure), joined,
--                     the items of digests; the totals; in a guarded store the deferrals of each category
--   a          string the highest arrival, see place
--   e          zset   in flight: notification → end of its lease
--   y          zset   waiting with an expiry: notification → when it expires
--   o          zset   backlogs that a limit blocks → when their first was accepted, µs
--   opens      zset   other blocked backlogs → the moment from which their first may go
--   v          hash   user → how many of the user's backlogs are blocked
--   wakeups    zset   user → the moment by which the wake-up must have come; the sweeper replaces one that has not
--   generation string that of the wake-ups that were pulled last, see take.lua
--   holders    hash   process → when it swept or pulled last, µs
--   round:<process>   string what its latest round gave out
--   history:<hour>    hash   kind and category → how many in that hour since 1970, see note_history; kept for 31 days
--   preferences          hash   user → what the user wants, as JSON; when this is the store
--   preferences:changes  zset   user → number of the latest change, µs
--   events     list   events that are not in the log of the deployment yet, see events.tell; events:moving are those that a
--                     process is moving there, events:batch is the name of these
--   elsewhere  hash   category → how many processes without metrics accepted, until one with metrics counts them
--   sweep      hash   last: when the partition was swept, or looked over while not empty; truce: when the latest truce
--                     began; before: when the one before it began; back: by how many µs the clock was set back, until
--                     all users are woken who waited then; upto: the score of the last wake-up that was seen to, and
--                     its user; empty when only leases are left; rest: the same among what is later of that user
-- and in a guarded store, where another store keeps the notifications and Redis may lose everything:
--   z          hash   notification → its end (letter, µs, reason, and after a tab what explains it), until the other
--                     store knows of it
--   epoch      string how often the partition was built, and the server's identity when it was; without it the
--                     partition has lost its state, and grants nothing
--   counted    string the epoch that the partition has lost, in which its counts were counted
--   built      string the history of the server's data (its replication id) on which the partition was built; on
--                     another history it grants nothing
--   mark       string the latest mark of the other store; one that it does not know, or made in another history, shows
--                     that it is not the store for which the partition was built. While there is a mark, no process
--                     that keeps notifications here may accept or grant any
--   rebuild    string token of the rebuild in progress, a space, and the history of the server's data on which it
--                     began; on another history nothing more is restored
-- Per user:
--   a:<user>   hash   the agenda: category → "next rule capped since fresh blocks most ready counted" of a backlog that is not
--                     empty, see open_agenda; "" → "generation holder until" of the wake-up that a process holds;
--                     "+" while something is later; "!" when the user has limits of their own
--   r:<user>   zset   what is later: notification → not before (a send_at or a retry)
-- Per backlog, named category:user (a category holds no colon):
--   w:<name>   zset   the backlog: notification → place, by priority and arrival
--   s:<name>   zset   those in the backlog for which max_defer does not count since their acceptance, such as retries, or
--                     that have another place than they had then → since when it counts, µs
--   untold:<name>  zset  while somebody wants events of deferrals: those in the backlog that were not deferred yet, or of
--                     which nobody was told yet
--   x:<name>   hash   collapse key → the waiting notification that has it
--   h:…        string arrival of the newest with a collapse key; its name holds the key's length, the key and the
--                     backlog
--   digest:…   list   the items of the digest that a notification carries, see digest.lua
-- and the limiter's keys: <algorithm>:<name>, u:<user> the log of the user's cap, cap:<cap>:<user> that of a named cap,
-- whose name holds no colon. Per notification:
--   n:<id>     hash   the notification. Scripts write F.<word> for a field and S.<word> for a state, see keyspace/words.go

local partition = KEYS[1]

-- 2^51: a place is (priority-1)·2^51 + arrival; what was released has priority 0. The arrival is a number that only
-- orders: whoever is accepted later has a higher one, whatever the clocks say. It is exact in a double while it stays
-- below 2^51. Places can be compared across all backlogs of a partition.
local BAND = 2251799813685248

-- The changes of the counts; write_changes writes them.
local counted = {}
local function count(name, n) counted[name] = (counted[name] or 0) + n end

-- The changes of the present hour's history, by kind and category; write_changes writes them. The kinds are A accepted,
-- W deferred, and the states of ends.
local happened = {}
local function note_history(kind, category)
  if GUARDED then return end
  local field = kind .. (category or '')
  happened[field] = (happened[field] or 0) + 1
end

-- The deferrals that this script decided, for the metrics of its caller: user, category, count, rule, and so on.
local deferrals = {}
local function note_deferrals(user, category, n, rule)
  count('deferrals', n)
  if GUARDED then
    count('deferrals:' .. category, n)
  else
    happened[S.deferred .. category] = (happened[S.deferred .. category] or 0) + n
  end
  local i = #deferrals
  deferrals[i + 1], deferrals[i + 2], deferrals[i + 3], deferrals[i + 4] = user, category, n, rule
end

-- Events for other programs. EVENTS holds the states, S.deferred among them, of which somebody wants events; in a guarded
-- store only S.deferred and S.overflow: that store knows of all ends by itself. A process learns within a second that
-- others are wanted. The functions are in a table: a script may have few local names.
local events = {}

function events.wants(state) return string.find(EVENTS, state, 1, true) ~= nil end

-- events.tell writes an event: state, moment, notification, user, category, number of attempts, basis, and reason, which
-- alone may hold a control character. A partition keeps the newest 10,000.
function events.tell(...)
  if redis.call('RPUSH', partition .. 'events', table.concat({ ... }, '\31')) > 10000 then
    redis.call('LTRIM', partition .. 'events', '-10000', '-1')
  end
end

-- events.tell_end tells of the end of a notification, and that it was delivered in the message of another.
function events.tell_end(id, category, state, reason)
  local digested = reason == 'digest' and state == S.delivered and events.wants(S.digested)
  if not digested and not events.wants(state) then return end
  local user, generation, returned, basis, carrier = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.user,
    F.generation, F.returned, F.basis, F.digest))
  local function tell(what, why)
    events.tell(what, digits(now), id, user or '', category or '', digits((generation or 0) - (returned or 0)), basis or '', why)
  end
  if events.wants(state) then tell(state, reason) end
  if digested then tell(S.digested, carrier or '') end
end

-- events.tell_deferred tells that one of a backlog was deferred at a moment, by a rule.
function events.tell_deferred(agenda, backlog, id, at, rule)
  events.tell(S.deferred, digits(at), id, agenda.user, backlog.category, '0', '', digits(rule))
end

function events.untold_of(backlog) return partition .. 'untold:' .. backlog.name end

-- events.tell_untold tells of those in a backlog that a rule defers from now on. A script tells of 1,000 at most, the
-- next look at the backlog of more.
function events.tell_untold(agenda, backlog, rule)
  if not events.wants(S.deferred) then return end
  local untold = events.untold_of(backlog)
  for _, id in ipairs(redis.call('ZRANGE', untold, '0', '999')) do
    redis.call('ZREM', untold, id)
    if redis.call('ZSCORE', backlog.key, id) then events.tell_deferred(agenda, backlog, id, now, rule) end
  end
end

-- events.tell_late is called for each that leaves its backlog. It tells of a deferral of which nobody was told yet.
function events.tell_late(agenda, backlog, id, joined)
  if not events.wants(S.deferred) or redis.call('ZREM', events.untold_of(backlog), id) == 0 then return end
  if tonumber(joined or 0) < backlog.blocks then
    events.tell_deferred(agenda, backlog, id, backlog.since, backlog.rule)
  end
end

-- open_agenda reads a user's agenda, once in a script. The fields of a backlog in it:
--   next    the moment at which its first may go, when it is blocked; 0 when something may go, or nobody has looked
--   rule    the number in the plan of the rule that blocks it; below 0 a closed interval does
--   capped  1 when that rule is the user's cap, 3 when it is a named cap; 2 when its category is paused: then no rule
--           blocks it, yet nothing goes; and 4 more while a round that could not look at all backlogs goes on with
--           the others: nothing of this one could go a moment ago; and 8 more once it goes as digests until it is empty
--   since   when it was blocked last; 0 when it never was
--   fresh   how many in it have not been deferred: they came while it was not blocked, or they bypass
--   blocks  how often it was blocked since it was last empty
--   most    while it is blocked: how many can go at most within max_defer, as of when it was blocked; 0 for any number
--   ready   while it is not: since when what is in it may go, as far as the moment says so at which it was unblocked, or
--           the try after a pause; 0 when it was never blocked or paused
--   counted while it has never been blocked: how many of the fresh ones were deferred, and counted, before a rebuild
local agendas, open_agenda = {}, nil
do
  -- Many backlogs stand alike, above all those that nobody has looked at.
  local states = {}

  -- read_state returns the fields of a backlog that its agenda keeps. They are shared: nobody changes them.
  local function read_state(text)
    local state = states[text]
    if state then return state end
    local next_, rule, capped, since, fresh, blocks, most, ready, already =
      string.match(text, '^(%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    local flags = tonumber(capped)
    local held = flags % 4
    state = {
      next = tonumber(next_), rule = tonumber(rule), capped = held == 1, paused = held == 2, named = held == 3,
      seen = flags % 8 >= 4, bundled = flags >= 8, since = tonumber(since), fresh = tonumber(fresh), blocks = tonumber(blocks),
      most = tonumber(most), ready = tonumber(ready), counted = tonumber(already),
    }
    states[text] = state
    return state
  end

  function open_agenda(user)
    local agenda = agendas[user]
    if agenda then return agenda end
    agenda = {
      user = user, key = partition .. 'a:' .. user, later = partition .. 'r:' .. user,
      backlogs = {}, changed = {}, size = 0,
    }
    agendas[user] = agenda
    local fields = redis.call('HGETALL', agenda.key)
    for i = 1, #fields, 2 do
      local category, value = fields[i], fields[i + 1]
      if category == '' then
        local generation, holder, held_until = string.match(value, '^(%d+) (%S*) (%d+)$')
        agenda.generation, agenda.holder, agenda.held_until = generation, holder, tonumber(held_until)
      elseif category == '+' then
        agenda.has_later = true
      elseif category == '!' then
        agenda.personal = true
      else
        local name, state = category .. ':' .. user, read_state(value)
        agenda.size = agenda.size + 1
        agenda.backlogs[category] = {
          category = category, name = name, key = partition .. 'w:' .. name, next = state.next, rule = state.rule,
          capped = state.capped, paused = state.paused, named = state.named, seen = state.seen, bundled = state.bundled,
          since = state.since,
          fresh = state.fresh, blocks = state.blocks, most = state.most, ready = state.ready,
          counted = state.counted,
        }
      end
    end
    return agenda
  end
end

-- mark_personal notes that the user has limits of their own.
local function mark_personal(agenda)
  if agenda.personal then return end
  agenda.personal = true
  redis.call('HSET', agenda.key, '!', '')
end

-- unmark_personal forgets that: nothing waits for the user, so nothing else is kept of them.
local function unmark_personal(agenda)
  if not agenda.personal then return end
  agenda.personal = nil
  redis.call('HDEL', agenda.key, '!')
end

-- backlog_of returns the backlog of a category; it may be empty.
local function backlog_of(agenda, category)
  local backlog = agenda.backlogs[category]
  if not backlog then
    local name = category .. ':' .. agenda.user
    backlog = {
      category = category, name = name, key = partition .. 'w:' .. name, next = 0, rule = 0, capped = false, since = 0,
      fresh = 0, blocks = 0, most = 0, ready = 0, counted = 0, size = 0,
    }
    agenda.backlogs[category] = backlog
    agenda.size = agenda.size + 1
  end
  return backlog
end

local function size_of(backlog)
  if not backlog.size then backlog.size = redis.call('ZCARD', backlog.key) end
  return backlog.size
end

local function mark_changed(agenda, backlog) agenda.changed[backlog] = true end

-- set_seen notes whether rounds that can't look at all backlogs at once have seen that nothing of this one can go.
local function set_seen(agenda, backlog, seen)
  if (backlog.seen or false) == seen then return end
  backlog.seen = seen
  mark_changed(agenda, backlog)
end

-- is_quiet reports whether a closed interval blocks a backlog.
local function is_quiet(backlog) return backlog.next > 0 and backlog.rule < 0 end

-- waits_for_company reports whether the first of a backlog waits for others of its group. Then whatever comes first
-- instead may go sooner.
local function waits_for_company(backlog)
  return backlog.next > 0 and (backlog.rule == DIGEST or backlog.rule == -1 - DIGEST)
end

-- held_as is the count of those in a backlog that wait on purpose: for the end of a closed interval, or for company;
-- nil when a limit blocks it, or nothing.
local function held_as(backlog)
  if is_quiet(backlog) then return 'quiet' end
  return backlog.next > 0 and backlog.rule == DIGEST and 'company' or nil
end

-- set_of_blocked is the set that a blocked backlog is in.
local function set_of_blocked(held) return partition .. (held and 'opens' or 'o') end

-- set_blocked sets the moment from which the first of a backlog may go, and the rule that blocks it until then. That
-- defers the whole backlog; those that were not deferred before are counted now.
local function set_blocked(agenda, backlog, next_, rule, capped, most)
  local size = size_of(backlog)
  local before = backlog.next > 0 and size - backlog.fresh or 0
  count('deferred', size - before)
  count('capped', (capped and size or 0) - (backlog.capped and before or 0))
  local was_blocked, was_held = backlog.next > 0, held_as(backlog)
  if was_held then count(was_held, -before) end
  if not was_blocked then
    redis.call('HINCRBY', partition .. 'v', agenda.user, '1')
    backlog.since = now
  end
  if backlog.fresh > 0 then
    local new = backlog.fresh - backlog.counted
    if new > 0 then note_deferrals(agenda.user, backlog.category, new, rule) end
    backlog.blocks, backlog.fresh = backlog.blocks + 1, 0
  end
  events.tell_untold(agenda, backlog, rule)
  backlog.next, backlog.rule, backlog.capped, backlog.most, backlog.ready = next_, rule, capped, most, 0
  local held = held_as(backlog)
  if held then count(held, size) end
  local set = set_of_blocked(held)
  if was_blocked and set_of_blocked(was_held) ~= set then
    redis.call('ZREM', set_of_blocked(was_held), backlog.name)
  end
  redis.call('ZADD', set, digits(held and next_ or backlog.first.accepted), backlog.name)
  backlog.counted = 0
  mark_changed(agenda, backlog)
end

-- set_paused notes that the category of a backlog is paused, and when it is tried again. A paused backlog is not
-- blocked.
local function set_paused(agenda, backlog, try)
  backlog.paused, backlog.ready = true, try
  mark_changed(agenda, backlog)
end

-- set_resumed notes that the category of a backlog is not paused. What is in it could go from the try after the pause.
local function set_resumed(agenda, backlog)
  if not backlog.paused then return end
  backlog.paused, backlog.ready = false, math.min(now, backlog.ready)
  mark_changed(agenda, backlog)
end

-- set_ready unblocks a backlog: something of it may go, or it is empty.
local function set_ready(agenda, backlog)
  if backlog.next == 0 then return end
  local deferred = size_of(backlog) - backlog.fresh
  count('deferred', -deferred)
  if backlog.capped then count('capped', -deferred) end
  local held = held_as(backlog)
  if held then count(held, -deferred) end
  redis.call('ZREM', set_of_blocked(held), backlog.name)
  if redis.call('HINCRBY', partition .. 'v', agenda.user, '-1') <= 0 then
    redis.call('HDEL', partition .. 'v', agenda.user)
  end
  backlog.ready = math.min(now, backlog.next)
  backlog.next, backlog.capped, backlog.named, backlog.most = 0, false, false, 0
  mark_changed(agenda, backlog)
end

local function place(priority, arrival)
  return digits((priority - 1) * BAND + arrival)
end

-- strays_of is the set of those in a backlog whose place does not tell since when max_defer counts for them.
local function strays_of(backlog) return partition .. 's:' .. backlog.name end

-- stray_since returns since when max_defer counts for a notification of that set, and nil for any other. `from` is the
-- arrival that its place follows instead of its own, if any, `not_before` the later of its fields t and n.
local function stray_since(accepted, from, not_before)
  local since = math.max(accepted, not_before)
  return (from or since ~= accepted) and since or nil
end

-- add_to_backlog puts a notification into a backlog. One that was `deferred` before is not counted again. `since` is when
-- max_defer counts from, if its place does not tell. It returns the field j of the notification.
local function add_to_backlog(agenda, backlog, id, at_place, bypasses, deferred, since)
  redis.call('ZADD', backlog.key, at_place, id)
  if since then redis.call('ZADD', strays_of(backlog), digits(since), id) end
  if backlog.size then backlog.size = backlog.size + 1 end
  count('waiting', 1)
  local joined = backlog.blocks
  if not deferred and (bypasses or backlog.next == 0) then
    backlog.fresh = backlog.fresh + 1
    mark_changed(agenda, backlog)
    if events.wants(S.deferred) and not deferred and not bypasses then
      redis.call('ZADD', events.untold_of(backlog), '0', id)
    end
  else
    joined = joined - 1
    if backlog.next > 0 then
      count('deferred', 1)
      if backlog.capped then count('capped', 1) end
      local held = held_as(backlog)
      if held then count(held, 1) end
      if not deferred then
        note_deferrals(agenda.user, backlog.category, 1, backlog.rule)
        if events.wants(S.deferred) then events.tell_deferred(agenda, backlog, id, now, backlog.rule) end
      end
    end
    if backlog.size == 1 then mark_changed(agenda, backlog) end
  end
  return joined
end

-- was_deferred reports whether a notification has been deferred in the backlog that it is in.
local function was_deferred(backlog, joined) return tonumber(joined or 0) < backlog.blocks end

-- note_removal updates the counts after a notification was taken out of the set of a backlog.
local function note_removal(agenda, backlog, joined)
  if backlog.size then backlog.size = backlog.size - 1 end
  backlog.left = true
  mark_changed(agenda, backlog)
  count('waiting', -1)
  if not was_deferred(backlog, joined) then
    backlog.fresh = math.max(0, backlog.fresh - 1)
    -- Those from before a rebuild go first.
    backlog.counted = math.max(0, backlog.counted - 1)
  elseif backlog.next > 0 then
    count('deferred', -1)
    if backlog.capped then count('capped', -1) end
    local held = held_as(backlog)
    if held then count(held, -1) end
  end
end
