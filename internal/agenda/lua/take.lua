-- take makes one round of a worker. It returns to the queue the wake-ups that the worker can't serve, serves those that
-- are due by granting what may go now, and pulls new ones off the queue. A round handles a fixed number of
-- notifications at most; what is left comes again at once.
--
-- KEYS[1]  the partition's prefix
-- ARGV[1]  the round, as name.number: a repeated round has the same result; one that comes after a round with a higher
--          number grants nothing
-- ARGV[2]  the process
-- ARGV[3]  lease in µs
-- ARGV[4]  retention of ended notifications in ms
-- ARGV[5]  capacity: how many deliveries may start
-- ARGV[6]  how many new wake-ups to pull off the queue
-- ARGV[7]  today, as in the name of asynq's counter of the day
-- ARGV[8]  the second at which that counter expires
-- ARGV[9]  how many categories have the same settings for every user who has no limits of their own; of each, its name
--          and the number of its settings
-- then     how many settings follow; each is how many arguments it has, then these: max_defer in µs; the least urgent
--          priority that bypasses (0: none, 9: all); the least urgent that is exempt from closed intervals; how long
--          the category is paused in µs (0: not paused); 1 when what is due in a closed interval ends, and after a
--          space the rungs of the overflow ladder that say wait, see WaitLadder; how what waits goes as one, see
--          Digest.Text in Go; the basis:
--          version of the policy and time zone, to be kept with what is granted; the plan, see read_plan
-- then     how many wake-ups are released; of each: user, generation
-- then     the requested wake-ups; of each: user, generation, number of categories, and of each its name and the number
--          of its settings
--
-- Result   one flat list:
--          now, epoch, how many wake-ups came off the queue
--          for each requested wake-up, in order: its result
--          how many new wake-ups; of each: user, generation, then 1 and its result when it was served at once, else 0,
--          number of categories, these
--          how many foreign tasks; of each: id, message
--
--          A wake-up's result is:
--          number of grants; of each: id and what goes with it, parted by spaces, category, at, slot, rule, generation, attempt, failures, accepted at, payload,
--          deferrals, history, since when max_defer counts, basis
--          four times the number of deferrals that were decided; of each: user, category, how many, rule
--          0 when the wake-up is gone, 2 when it was pushed to the queue to come at once, 1 when this process holds it
--          when it is held also: the moment to ask again, category and number of the rule that it waits for ("" and 0:
--          none), number of categories, these
local round, process = ARGV[1], ARGV[2]
lease, retention = tonumber(ARGV[3]), ARGV[4]
local capacity, pull = tonumber(ARGV[5]), tonumber(ARGV[6])

-- The settings of the common categories; the wake-ups that are released, and those that are requested.
local common, releases, requests = {}, {}, {}
do
  local cursor = 9

  -- next_arg returns the next argument, next_number the next as a number.
  local function next_arg()
    cursor = cursor + 1
    return ARGV[cursor - 1]
  end
  local function next_number() return tonumber(next_arg()) end

  local common_of, settings = {}, {}
  for _ = 1, next_number() do common_of[next_arg()] = next_number() end
  for i = 1, next_number() do
    local after = cursor + 1 + next_number()
    local max_defer, bypass, exempt, paused, drops =
      next_number(), next_number(), next_number(), next_number(), next_arg()
    settings[i] = {
      max_defer = max_defer, bypass = bypass, exempt = exempt, paused = paused, drops = string.byte(drops) == 49,
      ladder = #drops > 1 and overflow.read(string.sub(drops, 3)) or nil, digest = company.read(next_arg()),
      basis = next_arg(), plan = read_plan(cursor),
    }
    cursor = after
  end
  for category, i in pairs(common_of) do common[category] = settings[i] end
  for i = 1, next_number() do releases[i] = { user = next_arg(), generation = next_arg() } end
  while cursor <= #ARGV do
    local request = { user = next_arg(), generation = next_arg(), settings = {}, grants = 0 }
    for _ = 1, next_number() do request.settings[next_arg()] = settings[next_number()] end
    requests[#requests + 1] = request
  end
end

-- Users whose wake-ups are used up; those of them whose task was active before; and users whose task becomes active
-- now.
local finished, finished_active, starting = {}, {}, {}

local wakes = {} -- what becomes of wake-ups

-- hold notes that this process holds a wake-up, and until when.
function wakes.hold(agenda, generation, at)
  agenda.generation = generation
  if agenda.new then starting[#starting + 1] = agenda.user end
  redis.call('HSET', agenda.key, '', generation .. ' ' .. process .. ' ' .. digits(at))
  note_wakeup_time(agenda, at)
end

-- let_go takes a wake-up from this process.
function wakes.let_go(agenda)
  agenda.generation = nil
  if agenda.new then return end
  redis.call('HDEL', agenda.key, '')
  remove_task(agenda.user, 'active')
end

-- finish ends the wake-up of a user for whom nothing waits any more. Another one of the same user may be pulled in
-- this round: it has to find that too.
function wakes.finish(agenda)
  agenda.changed, agenda.generation = {}, nil
  agenda.backlogs, agenda.size, agenda.has_later = {}, 0, false
  finished[#finished + 1] = agenda.user
  if not agenda.new then finished_active[#finished_active + 1] = agenda.user end
end

-- delete_finished deletes empty agendas and their wake-ups.
function wakes.delete_finished()
  if #finished == 0 then return end
  local keys = {}
  for i, user in ipairs(finished) do keys[i] = partition .. 'a:' .. user end
  redis.call('DEL', unpack(keys))
  redis.call('ZREM', partition .. 'wakeups', unpack(finished))
  acknowledge(finished, finished_active, ARGV[7], ARGV[8])
end

-- give_back pushes or schedules a wake-up that this process held.
function wakes.give_back(agenda, at)
  wakes.let_go(agenda)
  agenda.returned = true
  place_wakeup(agenda, at)
end

-- categories_of returns the categories whose settings the next request needs: those of the backlogs, and that of the
-- first of what is later, which will be in its backlog by then.
local function categories_of(agenda)
  local names = {}
  for category, backlog in pairs(agenda.backlogs) do
    if not backlog.size or backlog.size > 0 then names[#names + 1] = category end
  end
  if not agenda.has_later then return names end
  local first = redis.call('ZRANGE', agenda.later, '0', '0')[1]
  local category = first and redis.call('HGET', partition .. 'n:' .. first, F.category)
  local backlog = category and agenda.backlogs[category]
  if category and not (backlog and (not backlog.size or backlog.size > 0)) then names[#names + 1] = category end
  return names
end

local serve
do
  -- is_sure makes sure of when the first of a backlog may go: what was granted since that was decided may count for it,
  -- too. It returns false when a budget is used up.
  local function is_sure(agenda, backlog, request)
    local plan = backlog.plan
    if backlog.decided == request.grants or plan.cap_log.max == 0 and #plan.named == 0 then return true end
    return decide_first(agenda, backlog, request)
  end

  -- update blocks or unblocks a backlog after the grants. It returns the moment from which something of it may go, and by
  -- which rule; nil when it is empty, or something may go now, or that can't be told, which the third result says. When
  -- its first expires before that, what stands behind may go then.
  local function update(agenda, backlog, request)
    local category_settings = request.settings[backlog.category]
    if backlog.size ~= 0 and category_settings.paused > 0 then
      set_ready(agenda, backlog)
      set_paused(agenda, backlog, now + category_settings.paused)
      return now + category_settings.paused
    end
    if backlog.size ~= 0 and not backlog.decided then return nil, nil, true end
    if backlog.at and backlog.at > now and not is_sure(agenda, backlog, request) then return nil, nil, true end
    local sure = expire_behind(agenda, backlog, category_settings)
    if size_of(backlog) == 0 then return set_ready(agenda, backlog) end
    if not backlog.at or backlog.at <= now + HORIZON then
      if backlog.at then set_ready(agenda, backlog) end
      return nil, nil, true
    end
    if category_settings.ladder and not overflow.shorten(agenda, backlog, category_settings) then
      return backlog.at, backlog.why, true
    end
    sure = block(agenda, backlog, category_settings) and sure -- its first stays
    if backlog.size > CROWD then overflow.note(agenda.user, backlog.category, '', 'unbounded') end
    return math.min(backlog.at, tonumber(backlog.first.expires or backlog.at)), backlog.why, not sure
  end

  -- update_backlogs blocks or unblocks each backlog after the grants. It returns the next moment at which something may
  -- go, with category and rule, or nil when nothing waits; and whether something may go now. When it could not decide
  -- about all in this round, it marks those of which nothing can go: the next round begins with the others.
  local function update_backlogs(agenda, request, more)
    local moment, category, rule = agenda.later_due, '', 0
    for _, backlog in pairs(agenda.backlogs) do
      local at, why, may_go = backlog.next, backlog.rule, false
      if not is_seen(backlog) then at, why, may_go = update(agenda, backlog, request) end
      more = more or may_go
      if at and (not moment or at < moment) then moment, category, rule = at, why and backlog.category or '', why or 0 end
    end
    for _, backlog in pairs(agenda.backlogs) do
      local seen = is_seen(backlog) or looks <= 0 and backlog.decided ~= nil and backlog.next > now + HORIZON
      set_seen(agenda, backlog, more and seen)
    end
    return moment, category, rule, more
  end

  -- grant_all grants what may go now, up to a limit. It returns true when more may go, or when that can't be told in this
  -- round.
  local function grant_all(agenda, request, limit)
    local contenders = {}
    for category, backlog in pairs(agenda.backlogs) do
      local category_settings = request.settings[category]
      if category_settings.paused > 0 then
        set_seen(agenda, backlog, false)
      elseif not is_seen(backlog) then
        set_resumed(agenda, backlog)
        backlog.plan = plan_for(agenda, backlog, category_settings)
        find_first(backlog)
        add_contender(contenders, backlog)
      end
    end
    while true do
      local backlog, exhausted = next_due(agenda, contenders, request)
      if exhausted then return true end
      if not backlog then return false end
      if request.grants >= limit or budget <= 0 then return true end
      grant(agenda, backlog, request)
      find_first(backlog)
      add_contender(contenders, backlog)
    end
  end

  -- lacks_settings reports whether something waits in a category whose settings were not sent, because it came after
  -- the wake-up was pulled. It may be what goes first, so nothing is granted until its settings are known.
  local function lacks_settings(agenda, request)
    for category in pairs(agenda.backlogs) do
      if not request.settings[category] then return true end
    end
    return false
  end

  -- ask_again holds a wake-up that the worker shall ask for at once, with all the settings.
  local function ask_again(agenda, request)
    save_agenda(agenda)
    wakes.hold(agenda, request.generation, now)
    put_held(now, '', 0, categories_of(agenda))
  end

  -- later_due returns when the first of what is later is due. A sweep may not have seen that the clock was set back.
  local function later_due(agenda)
    local due = earliest_later(agenda)
    if not due or due <= now then return due end
    return advance_retry(agenda, redis.call('ZRANGE', agenda.later, '0', '0')[1], due)
  end

  -- serve serves one wake-up.
  function serve(request, limit)
    local agenda, place = open_agenda(request.user), reserve()
    if #deferrals > 0 then deferrals = {} end
    if agenda.generation ~= request.generation then return put_state(GONE) end
    agenda.later_due = later_due(agenda)
    if agenda.later_due and agenda.later_due <= now then
      budget = budget - promote(agenda, budget)
      agenda.later_due = later_due(agenda)
    end
    if lacks_settings(agenda, request) then return ask_again(agenda, request) end
    local more, moment, category, rule = grant_all(agenda, request, limit), nil, nil, nil
    if not agenda.unsure then moment, category, rule, more = update_backlogs(agenda, request, more) end
    reply[place] = request.grants
    if agenda.unsure then return ask_again(agenda, request) end
    if not moment and not more then
      wakes.finish(agenda)
      return put_state(GONE)
    end
    save_agenda(agenda)
    if more or moment > now + HOLD then
      wakes.give_back(agenda, more and now or moment)
      return put_state(more and AGAIN or GONE)
    end
    wakes.hold(agenda, request.generation, moment)
    put_held(moment, category, rule, categories_of(agenda))
  end
end

-- How many notifications this script may end, move or grant, and how many rules it may look at in vain. Each wake-up has its
-- share, so that one whose backlog expires, or who has many categories, does not delay the others.
local left, looks_left = 100, 400

-- serve_share serves one of several wake-ups, with its share of the capacity and of the budgets.
local function serve_share(request, several)
  local limit, share = math.floor(capacity / several), math.max(1, math.floor(left / several))
  local looks_share = math.max(1, math.floor(looks_left / several))
  if capacity > 0 and limit == 0 then limit = 1 end
  budget, looks = share, looks_share
  serve(request, limit)
  capacity, left, looks_left = capacity - request.grants, left - (share - budget), looks_left - (looks_share - looks)
end

local function release(wakeup)
  local agenda = open_agenda(wakeup.user)
  if agenda.generation == wakeup.generation then wakes.give_back(agenda, now) end
end

local pull_wakeups
do
  -- next_generation returns the generation of the wake-ups that are pulled now. The first generation is the time, so none
  -- is used twice, even after the partition has lost its state.
  local function next_generation()
    local generation = redis.call('INCR', partition .. 'generation')
    if generation == 1 then
      generation = now
      redis.call('SET', partition .. 'generation', digits(now))
    end
    return digits(generation)
  end

  -- may_grant_at_once reports whether the request brought the settings of everything that waits for a user, if the user
  -- has no others: the worker knows, and gives back what was granted to one who has.
  local function may_grant_at_once(agenda)
    if capacity == 0 or agenda.personal or agenda.has_later or next(common) == nil then return false end
    for category in pairs(agenda.backlogs) do
      if not common[category] then return false end
    end
    return true
  end

  -- serve_new serves a wake-up that was pulled, if its settings are known; otherwise the worker has to request it. It
  -- returns false when nothing waits for the user: then the wake-up is finished.
  local function serve_new(agenda, generation, several)
    -- asynq's recovery brings a wake-up back while a process that stands still holds it. That hold ends here: this round may
    -- end without writing another one.
    if agenda.generation then redis.call('HDEL', agenda.key, '') end
    agenda.new, agenda.generation = true, nil
    if agenda.size == 0 and not earliest_later(agenda) then
      wakes.finish(agenda)
      return false
    end
    put(agenda.user)
    put(generation)
    rounds.gives = true
    if may_grant_at_once(agenda) then
      agenda.generation, agenda.common = generation, true
      put(1)
      rounds.note('\nt ' .. generation .. '\t')
      serve_share({ user = agenda.user, generation = generation, settings = common, grants = 0 }, several)
      rounds.note('\t' .. agenda.user)
    else
      wakes.hold(agenda, generation, now)
      put(0)
      put_list(categories_of(agenda))
      rounds.note('\np ' .. generation .. '\t\t' .. agenda.user)
    end
    return true
  end

  -- awaits reports whether something waits for a user whose wake-up nobody holds, or held in this round: then a task of
  -- the user's name is that wake-up, and need not be read.
  local function awaits(agenda)
    return not agenda.generation and not agenda.returned and (agenda.size > 0 or agenda.has_later)
  end

  -- pull_wakeups pulls new wake-ups off the queue, and adds them and foreign tasks to the reply. It returns how many
  -- wake-ups it pulled.
  function pull_wakeups()
    local popped, foreign, place, found, new = pull > 0 and pop_pending(pull) or {}, {}, reserve(), 0, 0
    if #popped > 0 then
      local generation = next_generation()
      redis.call('HSET', partition .. 'holders', process, digits(now))
      for i = 1, #popped do
        local id = popped[i]
        local agenda = open_agenda(id)
        local message = not agenda.new and (awaits(agenda) and TYPE or message_of(id))
        if message and is_wakeup(message) then
          found = found + 1
          if serve_new(agenda, generation, #popped - i + 1) then new = new + 1 end
        elseif message then
          foreign[#foreign + 1], foreign[#foreign + 2] = id, message
          starting[#starting + 1] = id
        end
      end
      count('pulls', found + #foreign / 2)
    end
    reply[place] = new
    put(#foreign / 2)
    for i = 1, #foreign do put(foreign[i]) end
    return found
  end
end

local repeat_reply
do
  -- put_repeated adds the result of a wake-up of a repeated round: its grants that are still in flight, and whether this
  -- process still holds it.
  local function put_repeated(agenda, generation, given)
    put_grants_in_flight(given)
    if agenda.generation == generation then
      put_held(agenda.held_until or 0, '', 0, categories_of(agenda))
    else
      put_state(GONE)
    end
  end

  -- repeat_reply replies to a round that was made before, with what is kept of it.
  function repeat_reply(remembered)
    local lines = {}
    for line in string.gmatch(remembered, '[^\n]+') do lines[#lines + 1] = line end
    for i, request in ipairs(requests) do
      put_repeated(open_agenda(request.user), request.generation, lines[i + 1] or '')
    end
    local place, new = reserve(), 0
    for i = #requests + 2, #lines do
      local how, generation, given, user = string.match(lines[i], '^(%a) (%d+)\t([^\t]*)\t(.*)$')
      local agenda = open_agenda(user)
      if how == 't' or agenda.generation == generation then
        new = new + 1
        put(user)
        put(generation)
        put(how == 't' and 1 or 0)
        if how == 't' then put_repeated(agenda, generation, given) else put_list(categories_of(agenda)) end
      end
    end
    reply[place] = new
    put(0) -- foreign tasks are left to asynq's recovery
    return reply
  end
end

-- reply_nothing replies to a round that is outdated, or made while the partition is paused.
local function reply_nothing()
  for _ = 1, #requests do
    put(0)
    put_state(GONE)
  end
  put(0)
  put(0)
  return reply
end

put(now)
put(EPOCH)
local pulled = reserve()
local remembered = redis.call('GET', rounds.key)
if remembered and rounds.are_after(round, remembered) then return reply_nothing() end
if remembered and string.sub(remembered, 1, #round + 1) == round .. '\n' then return repeat_reply(remembered) end

for _, wakeup in ipairs(releases) do release(wakeup) end
if redis.call('EXISTS', tasks .. 'paused') == 1 then
  for _, request in ipairs(requests) do release(request) end
  reply_nothing()
else
  for i, request in ipairs(requests) do
    rounds.note('\n ')
    serve_share(request, #requests - i + 1)
  end
  reply[pulled] = pull_wakeups()
end
if #leases > 0 then redis.call('ZADD', partition .. 'e', unpack(leases)) end
make_active(starting)
wakes.delete_finished()
rounds.save()
write_changes()
return reply
