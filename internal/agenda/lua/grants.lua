-- The functions that decide what may go, and grant it. They stand between reply.lua and take.lua.

-- How long a lease is (µs), and how long ended notifications stay known (ms). take.lua sets them.
local lease, retention

-- How many more notifications may be ended, moved or granted for the current wake-up, and how many more rules may be
-- looked at to decide. A user may have many categories.
local budget, looks = 0, 0

-- The leases of the grants: end, notification, …
local leases = {}

local plan_for
do
  -- shared_log returns what all plans of a user share of what was read from the log of a cap.
  local function shared_log(agenda, name, log)
    agenda.cap_logs = agenda.cap_logs or {}
    local shared = agenda.cap_logs[name]
    if not shared then
      agenda.cap_logs[name] = log
      return log
    end
    shared.max, shared.per = math.max(shared.max, log.max), math.max(shared.per, log.per)
    return shared
  end

  -- lend gives the plan of the settings to a backlog, and has it forget the one before; nil when another backlog of the
  -- same agenda has it, or when caps tie it to that agenda.
  local function lend(plan, agenda)
    if plan.cap_log.max > 0 or #plan.named > 0 or plan.lent_to == agenda then return nil end
    plan.lent_to, plan.counters = agenda, nil
    plan.state_log.newest, plan.state_log.nth = nil, nil
    return plan
  end

  -- copy returns a copy of the plan of the settings, which shares with others of the agenda what it reads of caps.
  local function copy(of, agenda)
    local plan = copy_plan(of)
    if plan.cap_log.max > 0 then plan.cap_log = shared_log(agenda, '', plan.cap_log) end
    for n = 1, #plan.named do
      local cap = plan.named[n]
      cap.log = shared_log(agenda, cap.name, cap.log)
    end
    return plan
  end

  -- plan_for returns the plan of a user's category.
  function plan_for(agenda, backlog, category_settings)
    local plan = backlog.plan
    if plan and plan.backlog == backlog then return plan end
    plan = lend(category_settings.plan, agenda) or copy(category_settings.plan, agenda)
    plan.backlog = backlog
    return set_plan_keys(plan, backlog.category, agenda.user)
  end
end

-- find_first finds the first of a backlog, backlog.first; nil when the backlog is empty. When it may go is not known yet.
local function find_first(backlog)
  backlog.first, backlog.at = nil, nil
  if backlog.size == 0 then return end
  local found = redis.call('ZRANGE', backlog.key, '0', '1', 'WITHSCORES')
  if #found <= 2 then backlog.size = #found / 2 end
  if found[1] then backlog.first = { id = found[1], place = tonumber(found[2]) } end
end

-- number reads a number that may be missing: then it is 0.
local function number(text) return text and tonumber(text) or 0 end

-- read_first reads the first of a backlog. If that has expired, it ends it and finds the next. It returns false when the
-- budget is used up.
local function read_first(agenda, backlog)
  local first = backlog.first
  local id = first.id
  local accepted, priority, generation, returned, failures, expires, collapse, payload, deferrals, history, joined,
    not_before, due, backed_off, follows = unpack(redis.call('HMGET', partition .. 'n:' .. id, F.accepted, F.priority,
      F.generation, F.returned, F.failures, F.expires, F.collapse, F.payload, F.deferrals, F.history, F.joined,
      F.not_before, F.retry_due, F.backed_off, F.follows))
  if accepted and not (expires and tonumber(expires) <= now) then
    first.accepted, first.priority, first.generation = tonumber(accepted), tonumber(priority), number(generation)
    first.returned, first.failures, first.expires = number(returned), number(failures), expires
    first.collapse, first.payload, first.deferrals = collapse, payload, number(deferrals)
    first.history, first.joined, first.due = history or '', joined, number(due)
    first.not_before = math.max(number(not_before), number(backed_off))
    first.strays = not_before or backed_off or follows
    return true
  end
  if budget <= 0 then return false end
  budget = budget - 1
  if accepted then
    finish(id, remove_waiting(agenda, id), S.expired, 'expires_at', retention)
  else -- its hash is gone
    redis.call('ZREM', backlog.key, id)
    redis.call('ZREM', strays_of(backlog), id)
    note_removal(agenda, backlog, joined)
  end
  find_first(backlog)
  return true
end

-- may_end reports whether what settings forbid may be ended in this round. One with the common settings does not know
-- whether the user has others: it ends nothing, and has the worker ask with the user's.
local function may_end(agenda)
  if agenda.common then agenda.unsure = true end
  return budget > 0 and not agenda.unsure
end

-- expire ends a notification that waits, and what it carries. One that has expired ends of that.
local function expire(agenda, id, reason, detail)
  budget = budget - 1
  local category, frozen, expires = remove_waiting(agenda, id)
  if expires and tonumber(expires) <= now then reason, detail = 'expires_at', nil end
  finish(id, category, S.expired, reason, retention, detail)
  if frozen then digests.end_items(id, category, S.expired, retention) end
end

-- expire_overdue ends a notification that can't go within max_defer, since its slot (as text) would be too late.
local function expire_overdue(agenda, id, slot, category_settings)
  expire(agenda, id, 'max_defer', slot .. ' ' .. digits(category_settings.max_defer))
end

local decide_first
do
  -- drop ends a notification whose slot is in a closed interval.
  local function drop(agenda, backlog)
    expire(agenda, backlog.first.id, 'quiet_hours', digits(backlog.at) .. ' ' .. digits(open(backlog.plan, backlog.at)))
  end

  -- is_dropped reports whether the first of a backlog is due in a closed interval that ends it.
  local function is_dropped(backlog, drops)
    return drops and backlog.at <= now + HORIZON and open(backlog.plan, backlog.at) > backlog.at
  end

  -- decide sets backlog.at, when the first of a backlog may go, and backlog.why, the rule; and backlog.bound, since when
  -- the limits let it go, as they are now and as they were when they blocked it. What stands behind one that was granted
  -- ahead goes no sooner than that one. It returns what the first ends of: it would wait for too long, or is due in quiet
  -- hours that end it.
  local function decide(backlog, category_settings)
    local first, plan = backlog.first, backlog.plan
    plan.priority, plan.channel = first.priority, #plan.named > 0 and channel_of(first.payload)
    if first.priority <= category_settings.bypass then
      backlog.at, backlog.why = bypass_at(plan, now), 0
      backlog.bound = backlog.at > now and backlog.at or 0
      return nil
    end
    local exempt, bound = first.priority <= category_settings.exempt, nil
    local drops = category_settings.drops and not exempt
    plan.expires = tonumber(first.expires)
    local from, joined_by = math.max(now, backlog.granted or 0), company.until_when(backlog, category_settings)
    backlog.at, backlog.why, bound = decide_now(plan, math.max(from, joined_by), exempt or drops)
    if joined_by > from and backlog.why == 0 then backlog.why = DIGEST end
    if joined_by > from and backlog.why == -1 then backlog.why = -1 - DIGEST end
    if joined_by > 0 and not (exempt or drops) then joined_by = open(plan, joined_by, plan.expires) end
    backlog.bound = math.max(bound, backlog.next, joined_by)
    local since = math.max(first.accepted, first.not_before)
    if backlog.at - since > category_settings.max_defer then return 'max_defer' end
    if is_dropped(backlog, drops) then return 'quiet_hours' end
    local ladder = category_settings.ladder
    backlog.distance = backlog.at - since
    return ladder and first.priority > ladder.off and backlog.distance > ladder.least and 'overflow' or nil
  end

  -- decide_first decides about the first of a backlog, and about the next as long as it ends. It returns false when it must
  -- not end one, or a budget is used up.
  function decide_first(agenda, backlog, request)
    local category_settings = request.settings[backlog.category]
    while backlog.first do
      local first = backlog.first
      if looks <= 0 then return false end
      looks, backlog.decided = looks - 1 - #backlog.plan.rules, request.grants
      if not first.accepted and not read_first(agenda, backlog) then return false end
      if backlog.first == first then
        local ends = decide(backlog, category_settings)
        if not ends then return true end
        if ends == 'overflow' then
          local did = overflow.first(agenda, backlog, category_settings.ladder, backlog.distance)
          if not did then return did == nil end
        elseif not may_end(agenda) then
          return false
        elseif ends == 'max_defer' then
          expire_overdue(agenda, first.id, digits(backlog.at), category_settings)
        else
          drop(agenda, backlog)
        end
        find_first(backlog)
      end
    end
    return true
  end
end

-- is_seen reports whether a round just before has seen that nothing of a backlog can go yet.
local function is_seen(backlog) return backlog.seen and backlog.next > now + HORIZON end

local add_contender, next_due
do
  -- is_before orders backlogs by their first, as Redis orders a sorted set.
  local function is_before(a, b)
    if a.first.place ~= b.first.place then return a.first.place < b.first.place end
    return a.first.id < b.first.id
  end

  -- add_contender puts a backlog among the contenders, unless it is empty, or its first can't go in this round. They are
  -- in the order of their first.
  function add_contender(contenders, backlog)
    if not backlog.first or backlog.at and backlog.at > now + HORIZON then return end
    local low, high = 1, #contenders + 1
    while low < high do
      local middle = math.floor((low + high) / 2)
      if is_before(contenders[middle], backlog) then low = middle + 1 else high = middle end
    end
    table.insert(contenders, low, backlog)
  end

  -- may_be_next returns the place among the contenders of the one that goes next, as far as is known: the first that may
  -- go now, else the one that may go earliest. A grant makes others later, never earlier, so what was decided before a
  -- grant is a bound.
  local function may_be_next(contenders)
    local soonest
    for i = 1, #contenders do
      local backlog = contenders[i]
      if not backlog.at or backlog.at <= now then return i end
      if not soonest or backlog.at < contenders[soonest].at then soonest = i end
    end
    return soonest
  end

  -- next_due takes the backlog whose first goes next from the contenders, and returns it. Its second result is true when
  -- this can't be told in this round.
  function next_due(agenda, contenders, request)
    while true do
      local i = may_be_next(contenders)
      local backlog = contenders[i]
      if not backlog then return nil end
      if backlog.at and backlog.decided == request.grants then return table.remove(contenders, i) end
      local first = backlog.first
      if not decide_first(agenda, backlog, request) then return nil, true end
      if backlog.first ~= first or backlog.at > now + HORIZON then
        add_contender(contenders, table.remove(contenders, i))
      end
    end
  end
end

local grant
do
  -- slot_of returns the slot of the first of a backlog: since when it might have gone, at the earliest. That is the last
  -- of these moments: its acceptance, its send_at, the end of its back-off or of the wait for its provider, the moment from
  -- which the limits allow it, and the first try after a pause.
  local function slot_of(backlog)
    local n = backlog.first
    local slot = math.max(n.accepted, n.not_before, n.due, backlog.bound)
    if backlog.next == 0 then slot = math.max(slot, backlog.ready) end
    return math.min(slot, backlog.at)
  end

  -- shadowed returns which shadow rules would have one wait that goes at a moment: a bit for each, the first the lowest.
  local function shadowed(plan, now, at)
    local which = 0
    for i = 1, #plan.shadow do
      local from = bound(plan, plan.shadow[i], now)
      if from and from > at then which = which + 2 ^ (i - 1) end
    end
    return which
  end

  -- take_along has items go with the first of a backlog, which was granted. It returns all of them as the
  -- reply has them.
  local function take_along(agenda, backlog, items, basis)
    local n = backlog.first
    if n.generation > 1 and digests.is_frozen(n.id) then return digests.with_items(n.id) end
    if #items == 0 then return n.id end
    for _, id in ipairs(items) do remove_waiting(agenda, id) end
    digests.join(n.id, items, basis)
    budget = budget - #items
    return n.id .. ' ' .. table.concat(items, ' ')
  end

  -- grant grants the first of a backlog: it charges the windows, sets a lease, and removes it from the backlog.
  function grant(agenda, backlog, request)
    local n, at, slot = backlog.first, backlog.at, slot_of(backlog)
    local category_settings, items = request.settings[backlog.category], {}
    if company.begins(backlog, category_settings) then
      items = company.of(backlog, category_settings)
    end
    local key = partition .. 'n:' .. n.id
    n.generation = n.generation + 1
    local generation, basis = digits(n.generation), category_settings.basis
    redis.call('ZREM', backlog.key, n.id)
    if n.strays then redis.call('ZREM', strays_of(backlog), n.id) end
    events.tell_late(agenda, backlog, n.id, n.joined)
    release_collapse(backlog.category, agenda.user, n.id, n.collapse)
    if n.expires then redis.call('ZREM', partition .. 'y', n.id) end
    local shadows = n.priority > category_settings.bypass and shadowed(backlog.plan, now, at) or 0
    charge(backlog.plan, now, at, n.id .. '#' .. generation)
    backlog.granted = math.max(at, backlog.granted or 0)
    local fields = { F.state, S.sending, F.generation, generation, F.admitted, digits(at), F.basis, basis }
    if #backlog.plan.named > 0 then fields[9], fields[10] = F.caps, caps_of(backlog.plan) end
    if was_deferred(backlog, n.joined) and n.deferrals == 0 then
      n.deferrals, n.history = 1, n.history .. deferral_of(backlog, n.accepted)
      local i = #fields
      fields[i + 1], fields[i + 2], fields[i + 3], fields[i + 4] = F.deferrals, '1', F.history, n.history
    end
    redis.call('HSET', key, unpack(fields))
    note_removal(agenda, backlog, n.joined)
    leases[#leases + 1] = digits(at + lease)
    leases[#leases + 1] = n.id
    count('attempts', 1)
    budget, looks = budget - 1, looks + 1 + #backlog.plan.rules -- this look was not in vain
    request.grants = request.grants + 1
    put_grant(take_along(agenda, backlog, items, basis), backlog.category, at, slot, shadows, n.generation, n.generation - n.returned, n.failures,
      n.accepted, n.payload, n.deferrals, n.history, math.max(n.accepted, n.not_before), basis)
    rounds.gives = true
    rounds.note(generation .. ' ' .. n.id .. ' ')
  end
end

local expire_behind
do
  -- How many that stray may stand before one whose place tells since when it waits, so that it is found.
  local MOST_STRAYS = 1000

  -- oldest_stray returns of those that stray, and that limits hold, the one that waits since the earliest moment before
  -- another, and nil when there is none.
  local function oldest_stray(backlog, bypass, before)
    local ids = redis.call('ZRANGEBYSCORE', strays_of(backlog), '-inf', '(' .. digits(before), 'LIMIT', '0', '10')
    for _, id in ipairs(ids) do
      if tonumber(redis.call('HGET', partition .. 'n:' .. id, F.priority)) > bypass then return id end
    end
  end

  -- settled_first returns the first of those of a priority that do not stray. `among` is how many stray.
  local function settled_first(backlog, priority, among)
    local low, high, from, most = digits((priority - 1) * BAND), '(' .. digits(priority * BAND), 0, 1
    while from <= among do
      local ids = redis.call('ZRANGEBYSCORE', backlog.key, low, high, 'LIMIT', digits(from), digits(most))
      if among == 0 or #ids == 0 then return ids[1] end
      local since = redis.call('ZMSCORE', strays_of(backlog), unpack(ids))
      for i, id in ipairs(ids) do
        if not since[i] then return id end
      end
      from, most = from + most, 10 * most
    end
  end

  -- oldest_of returns the same of those of a priority that do not stray. The first of them waits for the longest: if the
  -- clock was set back, those behind it may seem to, and wait until it goes.
  local function oldest_of(backlog, priority, among, before)
    local id = settled_first(backlog, priority, among)
    if id and tonumber(redis.call('HGET', partition .. 'n:' .. id, F.accepted) or 0) < before then return id end
  end

  -- oldest returns one of a backlog that limits hold, and that waits since before a moment; nil when there is none.
  local function oldest(backlog, bypass, before)
    local last = redis.call('ZRANGE', backlog.key, '-1', '-1', 'WITHSCORES')[2]
    local among = math.min(redis.call('ZCARD', strays_of(backlog)), MOST_STRAYS)
    local found = among > 0 and oldest_stray(backlog, bypass, before)
    for priority = bypass + 1, math.floor(tonumber(last or -1) / BAND) + 1 do
      found = found or oldest_of(backlog, priority, among, before)
    end
    return found
  end

  -- is_time reports whether to look: in each second in which the slot of the first moves, and in each round when that is
  -- further away.
  local function is_time(backlog, at)
    return at - now >= 1000000 or math.floor(at / 1000000) ~= math.floor(backlog.next / 1000000)
  end

  -- expire_behind ends those behind the first of a backlog that can't go within max_defer, since none of them goes before
  -- the first does. What is more urgent may go before them for ever. It returns false when it must not end one, or a
  -- budget is used up.
  function expire_behind(agenda, backlog, category_settings)
    local at = math.max(now, backlog.at or 0)
    if size_of(backlog) < 2 or category_settings.bypass == 9 or not is_time(backlog, at) then return true end
    while true do
      local id = oldest(backlog, category_settings.bypass, at - category_settings.max_defer)
      if not id then return true end
      if not may_end(agenda) then return false end
      expire_overdue(agenda, id, digits(at) .. '+', category_settings)
    end
  end
end

local block
do
  -- holds_all reports whether a rule counts whatever is in a backlog: a cap may count only some channels.
  local function holds_all(plan, rule) return not (rule.named and plan.named[rule.named].channels) end

  -- window_of returns how long a window of the r-th rule is at least, and how many of them may have begun before the
  -- slot of a backlog's first: a counter's window may be nearly over then, or its bucket full, unless this rule decides
  -- the slot. Periods are at least half as long as they can be.
  local function window_of(backlog, r)
    local plan, rule = backlog.plan, backlog.plan.rules[r]
    if rule.period then return rule.per / 2, 1 end
    local counter = plan.algorithm ~= ROLLING and rule.kind == KIND_LIMIT
    return rule.per, counter and backlog.why ~= r and 1 or 0
  end

  -- overflow.most_in_time returns how many of a backlog the rules allow at most before the end of a time, such as
  -- max_defer, so many at a time; 0 for any number.
  function overflow.most_in_time(backlog, time, items)
    local plan, left, most = backlog.plan, math.max(0, now + time - backlog.at), nil
    for r, rule in ipairs(plan.rules) do
      if holds_all(plan, rule) then
        local per, begun = window_of(backlog, r)
        local n = rule.max * items * (math.floor(left / per) + 1 + begun)
        if not most or n < most then most = n end
      end
    end
    return most and most < 1e12 and most or 0
  end

  -- earliest_slot returns the earliest possible slot of the last of a backlog.
  local function earliest_slot(backlog, items)
    local plan, slot = backlog.plan, backlog.at
    for r, rule in ipairs(plan.rules) do
      if holds_all(plan, rule) then
        local per, begun = window_of(backlog, r)
        local windows = math.max(0, math.floor((size_of(backlog) - 1) / (rule.max * items)) - begun)
        slot = math.max(slot, backlog.at + math.floor(windows * per))
      end
    end
    return digits(slot) .. '+'
  end

  -- block blocks a backlog until its first may go, and expires the last of it that can't go within max_defer. It returns
  -- false when it must not end them, or the budget is used up.
  function block(agenda, backlog, category_settings)
    local digest = category_settings.digest
    local items = digest and digest.most or 1
    local most = overflow.most_in_time(backlog, category_settings.max_defer, items)
    while most > 0 and size_of(backlog) > most do
      if not may_end(agenda) then return false end
      local last = redis.call('ZRANGE', backlog.key, '-1', '-1')[1]
      expire_overdue(agenda, last, earliest_slot(backlog, items), category_settings)
    end
    if backlog.bounded then most = most > 0 and math.min(most, backlog.bounded) or backlog.bounded end
    local why, rules = backlog.why, backlog.plan.rules
    local rule, held = rules[why], rules[why < 0 and -1 - why or why]
    backlog.named = held ~= nil and held.named ~= nil
    backlog.bundled = backlog.bundled or why < 0 and not (digest and digest.by_ladder)
    -- One more may fill the digest that its first waits for.
    if why == DIGEST or why == -1 - DIGEST then most = most > 0 and math.min(most, digest.most - 1) or digest.most - 1 end
    set_blocked(agenda, backlog, backlog.at, backlog.why, rule ~= nil and rule.kind == KIND_CAP, most)
    return true
  end
end
