-- The functions that decide what may go, and grant it. They stand between reply.lua and take.lua.

-- How far ahead a slot is granted (µs), how long a lease is (µs), and how long ended notifications stay known (ms).
-- take.lua sets them.
local horizon, lease, retention

-- How many more notifications may be ended, moved or granted for the current wake-up.
local budget = 0

-- The leases of the grants: end, notification, …
local leases = {}

-- plan_for returns the plan of a user's category. All plans of a user share what was read from the cap's log.
local function plan_for(agenda, backlog, category_settings)
  local plan = set_plan_keys(copy_plan(category_settings.plan), backlog.category, agenda.user)
  local log, shared = plan.cap_log, agenda.cap_log
  if log.max == 0 then return plan end
  if shared then
    shared.max, shared.per = math.max(shared.max, log.max), math.max(shared.per, log.per)
    plan.cap_log = shared
  else
    agenda.cap_log = log
  end
  return plan
end

-- read_first reads the first of a backlog into backlog.first (nil: the backlog is empty), and ends those before it that
-- have expired. It returns false when the budget is used up.
local function read_first(agenda, backlog)
  while true do
    backlog.first, backlog.at = nil, nil
    if backlog.size == 0 then return true end
    local found = redis.call('ZRANGE', backlog.key, '0', '1', 'WITHSCORES')
    local id = found[1]
    if #found == 2 then backlog.size = 1 end
    if not id then
      backlog.size = 0
      return true
    end
    local f = redis.call('HMGET', partition .. 'n:' .. id, 'v', 'p', 'g', 'o', 'f', 'e', 'k', 'b', 'd', 'h', 'j', 't', 'r',
      'n')
    if f[1] and not (f[6] and tonumber(f[6]) <= now) then
      backlog.first = {
        id = id, place = tonumber(found[2]), arrival = tonumber(f[1]), priority = tonumber(f[2]),
        generation = tonumber(f[3] or 0), returned = tonumber(f[4] or 0), failures = tonumber(f[5] or 0),
        expires = f[6], collapse = f[7], payload = f[8],
        deferrals = tonumber(f[9] or 0), history = f[10] or '', joined = f[11],
        not_before = math.max(tonumber(f[12] or 0), tonumber(f[14] or 0)), due = tonumber(f[13] or 0),
      }
      return true
    end
    if budget <= 0 then return false end
    budget = budget - 1
    if f[1] then
      finish(id, remove_waiting(agenda, id), 'E', 'expires_at', retention)
    else -- its hash is gone
      redis.call('ZREM', backlog.key, id)
      note_removal(agenda, backlog, f[11])
    end
  end
end

-- expire_overdue ends a notification that can't go within max_defer, since its slot (as text) would be too late.
local function expire_overdue(agenda, id, slot, category_settings)
  budget = budget - 1
  finish(id, remove_waiting(agenda, id), 'E', 'max_defer', retention, slot .. ' ' .. digits(category_settings.max_defer))
end

-- decide_first sets backlog.at, when the first of a backlog may go, and backlog.why, the rule; and backlog.bound, since
-- when the limits let it go, as they are now and as they were when they blocked it. It ends those that would wait for
-- too long. It returns false when the budget is used up.
local function decide_first(agenda, backlog, category_settings)
  while backlog.first do
    local first = backlog.first
    if first.priority <= category_settings.bypass then
      backlog.at, backlog.why, backlog.bound = now, 0, 0
      return true
    end
    local bound
    backlog.at, backlog.why, bound = decide_now(backlog.plan, now)
    backlog.bound = math.max(bound, backlog.next)
    local since = math.max(first.arrival + YEAR_2020, first.not_before)
    if backlog.at - since <= category_settings.max_defer then return true end
    if budget <= 0 then return false end
    expire_overdue(agenda, first.id, digits(backlog.at), category_settings)
    if not read_first(agenda, backlog) then return false end
  end
  return true
end

-- is_before orders backlogs by their first, as Redis orders a sorted set.
local function is_before(a, b)
  if a.first.place ~= b.first.place then return a.first.place < b.first.place end
  return a.first.id < b.first.id
end

-- next_due returns the backlog whose first goes next: of those that may go now the one with the first place, else the
-- earliest within the horizon. Its second result is true when the budget is used up.
local function next_due(agenda, contenders, request)
  local soonest
  for i = #contenders, 1, -1 do
    if not contenders[i].first then table.remove(contenders, i) end
  end
  if #contenders > 1 then table.sort(contenders, is_before) end
  for _, backlog in ipairs(contenders) do
    if not decide_first(agenda, backlog, request.settings[backlog.category]) then return nil, true end
    if backlog.first then
      if backlog.at <= now then return backlog end
      if backlog.at <= now + horizon and (not soonest or backlog.at < soonest.at) then soonest = backlog end
    end
  end
  return soonest
end

-- slot_of returns the slot of the first of a backlog: since when it might have gone, at the earliest. That is the last
-- of these moments: its arrival, its send_at, the end of its back-off or of the wait for its provider, the moment from
-- which the limits allow it, and the first try after a pause.
local function slot_of(backlog)
  local n = backlog.first
  local slot = math.max(n.arrival + YEAR_2020, n.not_before, n.due, backlog.bound)
  if backlog.next == 0 then slot = math.max(slot, backlog.ready) end
  return math.min(slot, backlog.at)
end

-- grant grants the first of a backlog: it charges the windows, sets a lease, and removes it from the backlog.
local function grant(agenda, backlog, request)
  local n, at, slot = backlog.first, backlog.at, slot_of(backlog)
  local key = partition .. 'n:' .. n.id
  n.generation = n.generation + 1
  local generation = digits(n.generation)
  redis.call('ZREM', backlog.key, n.id)
  release_collapse(backlog.category, agenda.user, n.id, n.collapse)
  if n.expires then redis.call('ZREM', partition .. 'y', n.id) end
  charge(backlog.plan, now, at, n.id .. '#' .. generation)
  if was_deferred(backlog, n.joined) and n.deferrals == 0 then
    n.deferrals, n.history = 1, n.history .. deferral_of(backlog, n.arrival)
    redis.call('HSET', key, 's', 's', 'g', generation, 'm', digits(at), 'd', '1', 'h', n.history)
  else
    redis.call('HSET', key, 's', 's', 'g', generation, 'm', digits(at))
  end
  note_removal(agenda, backlog, n.joined)
  leases[#leases + 1] = digits(at + lease)
  leases[#leases + 1] = n.id
  count('attempts', 1)
  budget = budget - 1
  request.grants = request.grants + 1
  put_grant(n.id, backlog.category, at, slot, backlog.why, n.generation, n.generation - n.returned, n.failures,
    n.arrival + YEAR_2020, n.payload, n.deferrals, n.history, math.max(n.arrival + YEAR_2020, n.not_before))
  has_given = true
  note_in_round(generation .. ' ' .. n.id .. ' ')
end

-- most_before_expiry returns how many the rules allow at most between a moment and the end of max_defer; 0 for any
-- number.
local function most_before_expiry(plan, at, max_defer)
  local most
  for _, rule in ipairs(plan.rules) do
    local n = rule.max * (math.floor(math.max(0, now + max_defer - at) / rule.per) + 1)
    if not most or n < most then most = n end
  end
  return most and most < 1e12 and most or 0
end

-- earliest_slot returns the earliest possible slot of the last of a backlog, when its first goes at a moment.
local function earliest_slot(backlog, at)
  local slot = at
  for _, rule in ipairs(backlog.plan.rules) do
    slot = math.max(slot, at + math.floor((size_of(backlog) - 1) / rule.max) * rule.per)
  end
  return digits(slot) .. '+'
end

-- block blocks a backlog until its first may go, and expires the last of it that can't go within max_defer. It returns
-- false when the budget is used up.
local function block(agenda, backlog, category_settings)
  local most = most_before_expiry(backlog.plan, backlog.at, category_settings.max_defer)
  while most > 0 and size_of(backlog) > most do
    if budget <= 0 then return false end
    local last = redis.call('ZRANGE', backlog.key, '-1', '-1')[1]
    expire_overdue(agenda, last, earliest_slot(backlog, backlog.at), category_settings)
  end
  local rule = backlog.plan.rules[backlog.why]
  set_blocked(agenda, backlog, backlog.at, backlog.why, rule ~= nil and rule.kind == KIND_CAP, most)
  return true
end
